"""``calibrail doctor``: what is in a file, what does it support, what is wrong with it?"""

from __future__ import annotations

import typer

from calibrail.cli import options as opt


def run(
    data: opt.Data,
    format: opt.Format = None,
    preset: opt.Preset = None,
    map: opt.Map = None,
    label_column: opt.LabelColumn = None,
    group_column: opt.GroupColumn = None,
    id_column: opt.IdColumn = None,
    reader_option: opt.ReaderOption = None,
    json: opt.AsJson = False,
) -> None:
    """Look at a file before anything is computed from it. Loads no model, writes nothing."""
    from calibrail.cli.exits import DONE, FAILURE
    from calibrail.cli.output import print_json, stdout_console
    from calibrail.report import print_diagnosis
    from calibrail.workflow.doctor import diagnose

    diagnosis = diagnose(
        data,
        format=format,
        preset=preset,
        mapping=opt.pairs(map, "--map") or None,
        label_column=label_column,
        group_column=group_column,
        id_column=id_column,
        options=opt.pairs(reader_option, "--reader-option"),
    ).to_dict()
    if json:
        print_json(diagnosis)
    else:
        print_diagnosis(diagnosis, stdout_console())
    raise typer.Exit(DONE if diagnosis["usable"] else FAILURE)
