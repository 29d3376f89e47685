"""nbgrader's settings for this course. Every `nbgrader` command that is called in this folder reads them."""

from pathlib import Path

from nbgrader import preprocessors as standard

try:
    from ampcourse.grading import nbgrader_hooks as hooks
except ImportError as error:
    raise SystemExit(
        f"nbgrader runs in an environment without this course's package ({error}): "
        "install it there with `pip install 'ampcourse[grading]'`."
    ) from None

c = get_config()  # noqa: F821 (nbgrader provides it)

c.CourseDirectory.course_id = "ampcourse"
c.CourseDirectory.root = str(Path(__file__).resolve().parent)  # holds source, release, submitted, gradebook.db ...

# For handing out and collecting on one machine. On a shared machine, set the folder that everybody can reach.
c.Exchange.root = str(Path(__file__).resolve().parent / "exchange")

# `nbgrader zip_collect` finds student and lesson in a file name, as learning platforms make them on download:
# ada_01_fp16_range.ipynb, lovelaceada_1234_5678_01_fp16_range-1.ipynb, Ada Lovelace_77_file_01_fp16_range.ipynb
c.FileNameCollectorPlugin.named_regexp = (
    r".*[\\/](?P<student_id>[^\\/_]+)_(?:[^\\/]*_)?(?P<file_id>\d\d_[a-z0-9_]+)(?:-\d+)?(?: \(\d+\))?\.ipynb$"
)

# The release is in the repository already; making it again only fills the gradebook, and gives the same bytes.
c.GenerateAssignment.force = True
c.GenerateAssignment.preprocessors = [
    standard.IncludeHeaderFooter,
    standard.InstantiateTests,
    hooks.RemoveInterpretation,
    standard.LockCells,
    standard.ClearSolutions,
    standard.ClearOutput,
    standard.CheckCellMetadata,
    standard.ComputeChecksums,
    standard.SaveCells,
    standard.ClearHiddenTests,
    standard.ClearMarkScheme,
    standard.ComputeChecksums,
    standard.CheckCellMetadata,
    hooks.Normalise,
]

# `nbgrader autograde`, formgrader and `ampcourse grade` do the same: code runs isolated, and is judged outside.
# Times and limits stand in the table [grading] of course.toml.
hooks.grade_with_ampcourse(c)
