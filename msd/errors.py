"""Every error a user can meet.

    MsdError                 exit code 1
    ├── BadCheckpoint        a source is missing, damaged or of an unsupported kind
    ├── BadModelFile         a .tflite file is damaged or not what was asked for
    ├── BadBundle            a folder of converted files is incomplete or does not match its manifest
    ├── BadCalibration       prompts or inputs to calibrate with are missing, damaged or of wrong shapes
    ├── BadConfig            a file under configs/, or an option, says something impossible
    ├── BadGoldens           golden pictures are missing, damaged, or another suite's
    ├── OutputExists         a result is in the way and --force was not given
    ├── OutputUnwritable     the disk is full, or the folder cannot be written
    ├── BadReport            a stored report is missing or not one
    ├── BadCaption           a caption is not one that the demo's scenes have (msd/demo/captions.py)
    ├── NoDelegate           the GPU delegate or an adapter for it could not be set up
    ├── PhoneFailed          a phone could not be reached over adb, or did not run what it was asked
    └── DelegateFailed       the delegate refused a model, or its process died, hung or outgrew its bounds

Each message is a sentence: what is wrong, where, and what would be right.
"""

from __future__ import annotations


class MsdError(Exception):
    """Something a user can act on; the command line prints it without a traceback."""


class BadCheckpoint(MsdError):
    """A source is missing, damaged or of an unsupported kind."""


class BadModelFile(MsdError):
    """A .tflite file is damaged or not what was asked for."""


class BadBundle(MsdError):
    """A folder of converted files is incomplete or does not match its manifest."""


class BadCalibration(MsdError):
    """Prompts or inputs to calibrate with are missing, damaged or of wrong shapes."""


class BadConfig(MsdError):
    """A configuration file or an option says something impossible."""


class BadGoldens(MsdError):
    """Golden pictures are missing, damaged, or those of another suite."""


class OutputExists(MsdError):
    """A result is in the way and may only be replaced when asked."""


class OutputUnwritable(MsdError):
    """The disk is full or the folder cannot be written."""


class BadReport(MsdError):
    """A stored report is missing, damaged or newer than this program."""


class NoDelegate(MsdError):
    """The GPU delegate, or an adapter for it, could not be set up."""


class DelegateFailed(MsdError):
    """The delegate refused a model, or its process died, took too long or needed too much memory."""


class PhoneFailed(MsdError):
    """A phone could not be reached over adb, or did not run what it was asked."""
