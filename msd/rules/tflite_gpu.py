from msd.rules.litert_gpu import LITERT_GPU
from dataclasses import replace
TFLITE_GPU = replace(LITERT_GPU, name="tflite-gpu")
