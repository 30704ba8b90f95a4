"""``calibrail doctor``: what is in a file, what does it support, what is wrong with it?"""

from typing import Annotated

import calibrail
from calibrail.cli import options as opt
from calibrail.cli.output import DONE, FAILURE


@opt.takes_settings
def run(
    data: opt.Data,
    reading: Annotated[opt.Reading, opt.Pick(without=("strict",))],
    show: opt.Show,
) -> None:
    """Look at a file before anything is computed from it.

    Loads no model, and writes nothing but a page where one is asked for.
    """
    diagnosis = calibrail.diagnose(data, reading).to_dict()
    show.finish("doctor", diagnosis, code=DONE if diagnosis["usable"] else FAILURE)
