"""What students may put into a notebook to reach the browser of whoever opens it. Each that runs sets `window.ran`."""

from __future__ import annotations

import base64
from typing import Any

from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

RUN = "window.ran=(window.ran||'')+'x'"
LOAD = "http://127.0.0.1:9/loaded"
PAGE = base64.b64encode(f"<script>{RUN}</script>".encode()).decode()
DRAWING = f'<svg xmlns="http://www.w3.org/2000/svg" onload="{RUN}"><script>{RUN}</script></svg>'
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="

MARKUP = (
    f"<script>{RUN}</script>",
    f"<ScRiPt\n>{RUN}</sCrIpT >",
    f"<scr<script>ipt>{RUN}</scr</script>ipt>",
    f'<img src=x onerror="{RUN}">',
    f"<img src=x onerror={RUN}//",
    f'<svg onload="{RUN}"><animate onbegin="{RUN}" attributeName=x></svg>',
    f'<svg><style><img src="</style><img src=x onerror={RUN}>"></svg>',
    f'<math><mtext><table><mglyph><style><!--</style><img title="--&gt;&lt;img src=x onerror={RUN}&gt;">',
    f'<noscript><p title="</noscript><img src=x onerror={RUN}>">',
    f'<textarea autofocus onfocus="{RUN}"></textarea>',
    f'<details open ontoggle="{RUN}"><summary>more</summary>x</details>',
    f'<a href="javascript:{RUN}">x</a>',
    f'<a href="java\tscript:{RUN}">x</a>',
    f'<a href="&#106;avascript:{RUN}">x</a>',
    f'<a href="data:text/html;base64,{PAGE}">x</a>',
    f'<a href="vbscript:{RUN}">x</a>',
    f'<iframe src="javascript:parent.{RUN}"></iframe>',
    f'<iframe srcdoc="<script>parent.{RUN}</script>"></iframe>',
    f'<object data="data:text/html;base64,{PAGE}"></object><embed src="{LOAD}">',
    f'<form action="{LOAD}"><input name=x value=y autofocus onfocus="{RUN}"><button>Sign in again</button></form>',
    f'<meta http-equiv="refresh" content="0;url={LOAD}">',
    f'<base href="{LOAD}/"><link rel=stylesheet href="{LOAD}.css">',
    f"<style>@import url({LOAD}); body {{ background: url({LOAD}) }}</style>",
    f'<div style="position:fixed;inset:0;background:url({LOAD})">8 of 8 points</div>',
    f'<img src="{LOAD}.png"><img src="//127.0.0.1:9/loaded"><img srcset="{LOAD}.png 1x">',
    f'<picture><source srcset="{LOAD}"><img src=x></picture><video poster="{LOAD}"><audio src="{LOAD}" autoplay>',
    f'<table background="{LOAD}"><tr><td background="{LOAD}">x</table>',
    f'<img src="data:image/svg+xml;base64,{base64.b64encode(DRAWING.encode()).decode()}">',
    '<span id="notebook" class="panel score" name="submission_id">clobbers</span>',
    f"<template><script>{RUN}</script></template><xmp><script>{RUN}</script></xmp>",
    f"<!--><script>{RUN}</script-->",
    f"<a href='https://example.org' ping='{LOAD}' onclick='{RUN}' target=_top>x</a>",
    f'<p onmouseover="{RUN}" tabindex=0 autofocus onfocus="{RUN}">x</p>',
)
MARKDOWN = (
    f"[x](javascript:{RUN})",
    f"[x](JaVaScRiPt&colon;{RUN})",
    f"![x](javascript:{RUN})",
    f'![x]({LOAD}.png "t")',
    f"<javascript:{RUN}>",
    f"[x][r]\n\n[r]: javascript:{RUN}",
    f'![x](x" onerror="{RUN})',
    f"$\\href{{javascript:{RUN}}}{{x}}$ $$\\require{{html}}\\style{{position:fixed}}{{x}}$$ $\\def\\x{{\\x\\x}}\\x$",
    f"$<script>{RUN}</script>$ $$<img src=x onerror={RUN}>$$",
    f"```html\n<script>{RUN}</script>\n```",
    f"```<img src=x onerror={RUN}>\nx\n```",
    f"# <img src=x onerror={RUN}>",
    f"| a |\n|---|\n| <img src=x onerror={RUN}> |",
    "![x](attachment:a.png) ![x](attachment:b.png)",
)


def notebook(**about: Any) -> Any:
    """A notebook with every attack, in markdown, in outputs of every type, and in metadata."""
    attached = {"a.png": {"text/html": f"<script>{RUN}</script>"}, "b.png": {"image/png": f'" onerror="{RUN}'}}
    texts = [new_markdown_cell(text) for text in (*MARKUP, *MARKDOWN)]
    texts[-1]["attachments"] = attached
    outputs = [new_output("display_data", data={"text/html": markup}) for markup in MARKUP]
    outputs += [new_output("display_data", data={"text/markdown": text}) for text in (*MARKUP, *MARKDOWN)]
    outputs += [
        new_output("display_data", data={"application/javascript": RUN, "text/plain": "x"}),
        new_output("display_data", data={"application/javascript": RUN}),
        new_output("display_data", data={"image/svg+xml": DRAWING}),
        new_output("display_data", data={"text/latex": f"$<script>{RUN}</script>$"}),
        new_output("display_data", data={"text/plain": f"<script>{RUN}</script>"}),
        new_output("display_data", data={"image/png": f'AAAA" onerror="{RUN}'}),
        new_output("display_data", data={"image/png": PIXEL}, metadata={"image/png": {"width": f"1 onload={RUN}"}}),
        new_output("display_data", data={"image/png": PIXEL}, metadata={"filenames": {"image/png": f"{LOAD}.png"}}),
        new_output(
            "display_data", data={"text/html": f"<script>{RUN}</script>"}, metadata={"text/html": {"isolated": True}}
        ),
        new_output(
            "display_data",
            data={"application/vnd.jupyter.widget-view+json": {"model_id": f"</script><script>{RUN}</script>"}},
        ),
        new_output("display_data", data={"application/vnd.plotly.v1+json": {"x": 1}, "text/vnd.mermaid": RUN}),
        new_output("stream", name="stdout", text=f"<script>{RUN}</script>\x1b[31m<img src=x onerror={RUN}>\x1b[0m"),
        new_output("error", ename="<b>", evalue=f"<script>{RUN}</script>", traceback=[f"<img src=x onerror={RUN}>"]),
    ]
    code = new_code_cell(f"# <script>{RUN}</script>", outputs=outputs, metadata={"tags": [f'"><img onerror={RUN}>']})
    code.execution_count = 1
    widgets = {"application/vnd.jupyter.widget-state+json": {"state": {"x": f"</script><script>{RUN}</script>"}}}
    made = new_notebook(cells=[*texts, code], metadata={"title": f"</title><script>{RUN}</script>", "widgets": widgets})
    made.metadata.update(about)
    return made
