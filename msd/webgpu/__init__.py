"""Programs for WebGPU: .tflite graphs compiled to kernels of our own, which any WebGPU implementation runs."""
