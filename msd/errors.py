"""Every error a user can meet.

    MsdError                 exit code 1
    ├── BadCheckpoint        a source is missing, damaged or of an unsupported kind
    ├── BadModelFile         a .tflite file is damaged or not of the expected kind
    ├── BadBundle            a folder of converted files is incomplete or does not match its manifest
    ├── BadCalibration       calibration prompts or inputs are missing, damaged or of wrong shapes
    ├── BadConfig            a file under configs/ has an invalid value, or what is chosen does not fit
    │   └── BadValue         an option's value is no name that there is, or has another form: exit code 2
    ├── BadGoldens           golden images are missing, damaged, or another suite's
    ├── OutputExists         the output exists already and --force was not given
    ├── OutputUnwritable     the disk is full, or the folder is not writable
    ├── BadReport            a stored report is missing, damaged or newer than this program
    ├── NotFinite            a network computed NaN, infinity or one colour, so there is no image
    ├── NoMemory             training does not fit into the GPU's memory
    ├── BadImage             an image or a mask to begin from cannot be read or does not fit
    ├── BadCaption           a caption describes no scene of the demo (msd/models/demo/captions.py)
    ├── NoDelegate           the GPU delegate or an adapter for it could not be set up
    ├── PhoneFailed          a phone could not be reached over adb, or a command failed on it
    └── DelegateFailed       the delegate refused a model, or its process crashed, hung or ran out of memory
        └── ProgramRefused   WebGPU refused a compiled program, by a shader or a limit of its own

Each message is a sentence that names the fault, its place, and the remedy.
"""

from __future__ import annotations


class MsdError(Exception):
    """An error that a user can act on; the command line prints it without a traceback."""

    def rename(self, before: str, after: str) -> None:
        """Let the message name `after` where it names `before`, a place that its reader does not know."""
        self.args = tuple(str(part).replace(before, after) for part in self.args)


class BadCheckpoint(MsdError):
    """A source is missing, damaged or of an unsupported kind."""


class BadModelFile(MsdError):
    """A .tflite file is damaged or not of the expected kind."""


class BadBundle(MsdError):
    """A folder of converted files is incomplete or does not match its manifest."""


class BadCalibration(MsdError):
    """Calibration prompts or inputs are missing, damaged or of wrong shapes."""


class BadConfig(MsdError):
    """A configuration file has an invalid value, or an option one that does not fit the others."""


class BadValue(BadConfig):
    """An option's value is no name that there is, or has another form: wrong usage, exit code 2."""


class BadGoldens(MsdError):
    """Golden images are missing, damaged, or those of another suite."""


class BadImage(MsdError):
    """An image or a mask to begin from cannot be read or does not fit."""


class NotFinite(MsdError):
    """A network computed NaN or infinity, or one colour, so there is no image."""


class NoMemory(MsdError):
    """Training does not fit into the GPU's memory."""


class OutputExists(MsdError):
    """The output exists already and may only be replaced on request."""


class OutputUnwritable(MsdError):
    """The disk is full or the folder is not writable."""


class BadReport(MsdError):
    """A stored report is missing, damaged or newer than this program."""


class NoDelegate(MsdError):
    """The GPU delegate, or an adapter for it, could not be set up."""


class DelegateFailed(MsdError):
    """The delegate refused a model, or its process crashed, hung or ran out of memory."""


class ProgramRefused(DelegateFailed):
    """WebGPU refused a compiled program, by a shader or a limit of its own."""


class PhoneFailed(MsdError):
    """A phone could not be reached over adb, or a command failed on it."""
