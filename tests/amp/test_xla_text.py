"""Reading HLO text: what XLA prints on this machine and on others, and what it never printed."""

from __future__ import annotations

import pytest

from ampcourse.amp.xla_module import HloModule

# As XLA writes for a GPU: tiled layouts, a library call for the product, tuples with counters, quoted brackets.
GPU = """
HloModule jit_step, is_scheduled=true, entry_computation_layout={(f16[8,16]{1,0:T(8,128)(2,1)S(1)})->(f32[])}

%fused_add (param_0.1: f16[8,4], param_1.3: f16[4]) -> f32[8,4] {
  %param_0.1 = f16[8,4]{1,0} parameter(0)
  %param_1.3 = f16[4]{0} parameter(1)
  %broadcast.1 = f16[8,4]{1,0} broadcast(%param_1.3), dimensions={1}, metadata={op_name="b (odd) } name, \\"x\\""}
  %add.1 = f16[8,4]{1,0} add(%param_0.1, %broadcast.1)
  ROOT %convert.5 = f32[8,4]{1,0} convert(%add.1)
}

%sum (a: f32[], b: f32[]) -> f32[] {
  %a = f32[] parameter(0)
  %b = f32[] parameter(1)
  ROOT %add.9 = f32[] add(%a, %b)
}

ENTRY %main (arg.0: f16[8,16], arg.1: f16[16,4]) -> (f32[], f32[8,4], s32[<=7]) {
  %arg.0 = f16[8,16]{1,0:T(8,128)(2,1)S(1)} parameter(0), sharding={replicated}
  %arg.1 = f16[16,4]{1,0} parameter(1)
  %constant.4 = f16[4]{0} constant({
    1, 2,
    3, 4
  })
  %constant.5 = f32[] constant(-inf)
  %call.1 = (f16[8,4], s8[1024]) custom-call(%arg.0, %arg.1), backend_config={"a":{"b":[1]}}, custom_call_target="gemm$"
  %gte.1 = f16[8,4]{1,0} get-tuple-element(%call.1), index=0
  %cudnn = (f16[1,2,2,4]{3,2,1,0}, u8[0]{0}) custom-call(%arg.0, %arg.1), custom_call_target="__cudnn$convForward"
  %fusion.1 = f32[8,4]{1,0} fusion(%gte.1, %constant.4), kind=kLoop, calls=%fused_add
  %reduce.1 = f32[] reduce(%fusion.1, %constant.5), dimensions={0,1}, to_apply=%sum
  %bound = s32[<=7]{0} custom-call(%arg.1), custom_call_target="Other"
  ROOT %tuple.1 = (f32[], f32[8,4]{1,0}, /*index=2*/s32[<=7]{0}) tuple(%reduce.1, %fusion.1, /*index=2*/%bound)
}
"""


@pytest.fixture(scope="module")
def gpu() -> HloModule:
    return HloModule.from_text(GPU)


def named(module: HloModule, name: str):
    (found,) = [i for i in module.instructions if i.name == name]
    return found


def test_every_computation_and_instruction_is_read(gpu: HloModule) -> None:
    assert gpu.name == "jit_step"
    assert {name: len(c.instructions) for name, c in gpu.computations.items()} == {"fused_add": 5, "sum": 3, "main": 11}
    assert gpu.entry.name == "main"
    assert [i.name for i in gpu.instructions if i.root] == ["convert.5", "add.9", "tuple.1"]


def test_types_shapes_and_bytes(gpu: HloModule) -> None:
    argument = named(gpu, "arg.0")
    assert (argument.dtype, argument.shape, argument.bytes) == ("float16", (8, 16), 256)
    call = named(gpu, "call.1")
    assert (call.dtype, call.shape, call.bytes) == ("tuple", (), 64 + 1024)
    assert [(a.dtype, a.shape) for a in call.arrays] == [("float16", (8, 4)), ("int8", (1024,))]
    assert named(gpu, "bound").shape == (7,)
    assert named(gpu, "tuple.1").bytes == 4 + 128 + 28
    assert named(gpu, "constant.5").literal == "-inf"
    assert named(gpu, "constant.4").literal.split() == ["{", "1,", "2,", "3,", "4", "}"]


def test_operands_and_attributes(gpu: HloModule) -> None:
    assert [o.name for o in named(gpu, "tuple.1").operands] == ["reduce.1", "fusion.1", "bound"]
    assert named(gpu, "call.1").target == "gemm$"
    assert named(gpu, "call.1").attributes["backend_config"] == '{"a":{"b":[1]}}'
    assert named(gpu, "reduce.1").attributes == {"dimensions": "{0,1}", "to_apply": "%sum"}
    assert named(gpu, "broadcast.1").attributes["dimensions"] == "{1}"


def test_library_calls_count_as_what_they_compute(gpu: HloModule) -> None:
    assert gpu.dots_by_dtype == {"float16": 1}
    assert gpu.convolutions_by_dtype == {"float16": 1}
    assert gpu.converts_by_dtype == {"float16 -> float32": 1}


def test_counting_by_any_name_of_a_dtype(gpu: HloModule) -> None:
    assert gpu.count("convert") == gpu.count("convert", "float32") == gpu.count("convert", "f32") == 1
    assert gpu.count("add", "f16") == 1
    assert gpu.count("convert", "bfloat16") == gpu.count("no-such-thing") == 0


def test_what_a_fusion_moves_and_saves(gpu: HloModule) -> None:
    (fusion,) = gpu.fusions
    assert (fusion.kind, [i.opcode for i in fusion.ops]) == ("kLoop", ["add", "convert"])
    assert [i.name for i in fusion.inputs] == ["gte.1", "constant.4"]
    assert fusion.bytes_moved == 64 + 8 + 128  # both inputs, the result
    assert fusion.bytes_alone == (64 + 8 + 64) + (64 + 128)  # the add with its small second input, then the convert
    assert fusion.bytes_saved == 2 * 64  # the sum, neither written nor read again
    assert [i.name for i in fusion.intermediates] == ["add.1"]


def test_kernels_are_what_runs_by_itself(gpu: HloModule) -> None:
    """Not what lies inside a fusion, not the function that a reduction applies, nothing that does no work."""
    assert [i.name for i in gpu.kernels] == ["call.1", "cudnn", "fusion.1", "reduce.1", "bound"]


def test_loops_and_branches_are_followed() -> None:
    module = HloModule.from_text(
        """HloModule m
        body {
          p = f32[9] parameter(0)
          ROOT t = f32[9] tanh(p)
        }
        condition {
          q = f32[9] parameter(0)
          ROOT c = pred[] custom-call(q), custom_call_target="x"
        }
        yes {
          y = f32[9] parameter(0)
          ROOT e = f32[9] exponential(y)
        }
        no {
          n = f32[9] parameter(0)
          ROOT s = f32[9] sine(n)
        }
        ENTRY main {
          x = f32[9] parameter(0)
          i = s32[] constant(1)
          w = f32[9] while(x), condition=condition, body=body
          ROOT r = f32[9] conditional(i, w, w), branch_computations={yes, no}
        }"""
    )
    assert {i.opcode for i in module.kernels} == {"tanh", "custom-call", "exponential", "sine"}
    assert module.bytes_moved == 3 * 72 + 37


@pytest.mark.parametrize(
    ("hlo_name", "name", "size"),
    [("pred", "bool", 1), ("bf16", "bfloat16", 2), ("f8e4m3fn", "float8_e4m3fn", 1), ("f8e5m2", "float8_e5m2", 1)]
    + [("s64", "int64", 8), ("u8", "uint8", 1), ("c64", "complex64", 8), ("f64", "float64", 8), ("s4", "int4", 0.5)],
)
def test_dtypes(hlo_name: str, name: str, size: float) -> None:
    module = HloModule.from_text(f"HloModule m\nENTRY e {{\n ROOT %p = {hlo_name}[6,4]{{1,0}} parameter(0)\n}}\n")
    (only,) = module.instructions
    assert (only.dtype, only.bytes) == (name, 24 * size)


def test_floating_point_operations() -> None:
    module = HloModule.from_text(
        """HloModule m
        ENTRY e {
          a = f32[5,32,7] parameter(0)
          b = f32[5,7,3] parameter(1)
          d = f32[5,32,3] dot(a, b), lhs_batch_dims={0}, lhs_contracting_dims={2}, rhs_contracting_dims={1}
          x = f32[2,16,16,8] parameter(2)
          k = f32[3,3,8,16] parameter(3)
          c = f32[2,16,16,16] convolution(x, k), window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f
          ROOT t = (f32[5,32,3], f32[2,16,16,16]) tuple(d, c)
        }"""
    )
    dot, convolution = (i.flops for i in (*module.dots, *module.convolutions))
    assert dot == 2 * 5 * 32 * 7 * 3
    assert convolution == 2 * (2 * 16 * 16 * 16) * (3 * 3 * 8)
    assert module.flops == dot + convolution


@pytest.mark.parametrize("text", ["", "no HLO", "HloModule m", "def f(): pass", None, 3, b"HloModule m"])
def test_what_is_no_hlo_is_said_in_one_sentence(text: object) -> None:
    with pytest.raises(ValueError, match=r"^[^.\n]*\.$"):
        HloModule.from_text(text)
