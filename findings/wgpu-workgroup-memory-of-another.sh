#!/usr/bin/env bash
# A workgroup finds what another left in its memory, with wgpu-native on SwiftShader; with Dawn it finds zeros.
#
# wgpu 0.32.0 (wgpu-native) and wgpudawn 0.32.0.4 (Dawn), each over the SwiftShader that @sparticuz/chromium 143.0.0 and
# 153.0.0 bring (npm), which is Chromium's.
# Expected: WGSL says that a variable of workgroup memory is zero when each workgroup begins. Each of 64 workgroups adds 1
# to one and writes it: 1, 64 times.
# Seen: with Dawn, which clears the memory by itself, 1 everywhere. With wgpu-native, which leaves it to Vulkan
# (VK_KHR_zero_initialize_workgroup_memory), the first 16 workgroups write 1, the next 16 write 2, and so on to 4: the
# memory is cleared once for each of SwiftShader's 16 batches of a dispatch. Atomics and arrays alike.
# It matters because a kernel that counts from zero passes on one implementation and not on the other; ours missed a
# rescaling of FlashAttention, and only in workgroups that had fewer steps than the one before.
# Written: W3C, WebGPU Shading Language, "var declarations": workgroup variables are zero-initialized.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"$(command -v python3.11 || command -v python3)" -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --no-compile wgpu==0.32.0 wgpudawn==0.32.0.4 numpy==1.26.4 brotli==1.1.0
for version in 143.0.0 153.0.0; do
  mkdir "$folder/$version"
  (cd "$folder/$version" && npm pack --silent "@sparticuz/chromium@$version" > name && tar xzf "$(cat name)" && rm ./*.tgz)
  for package in wgpu wgpudawn; do
    "$folder/venv/bin/python" - "$folder/$version" "$package" <<'EOF'
import ctypes
import importlib
import io
import os
import sys
import tarfile
from pathlib import Path

import brotli
import numpy as np

folder, package = Path(sys.argv[1]), sys.argv[2]
packed = brotli.decompress((folder / "package/bin/swiftshader.tar.br").read_bytes())
tarfile.open(fileobj=io.BytesIO(packed)).extractall(folder / "swiftshader")
os.environ["VK_ICD_FILENAMES"] = str(folder / "swiftshader/vk_swiftshader_icd.json")
ctypes.CDLL(str(folder / "swiftshader/libvulkan.so.1"), mode=ctypes.RTLD_GLOBAL)
wgpu = importlib.import_module(package)
adapter = wgpu.gpu.request_adapter_sync(power_preference="high-performance")
device = adapter.request_device_sync()
assert "SwiftShader" in adapter.info["device"], adapter.info

SHADER = """
@group(0) @binding(0) var<storage, read_write> found: array<u32>;
var<workgroup> counter: u32;
@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
  if (thread == 0u) { counter += 1u; }
  workgroupBarrier();
  if (thread == 0u) { found[group.x] = counter; }
}
"""
buffer = device.create_buffer(size=256, usage=wgpu.BufferUsage.STORAGE | wgpu.BufferUsage.COPY_SRC)
module = device.create_shader_module(code=SHADER)
pipeline = device.create_compute_pipeline(layout="auto", compute={"module": module, "entry_point": "main"})
entries = [{"binding": 0, "resource": {"buffer": buffer}}]
bound = device.create_bind_group(layout=pipeline.get_bind_group_layout(0), entries=entries)
encoder = device.create_command_encoder()
compute = encoder.begin_compute_pass()
compute.set_pipeline(pipeline)
compute.set_bind_group(0, bound)
compute.dispatch_workgroups(64)
compute.end()
device.queue.submit([encoder.finish()])
found = np.frombuffer(device.queue.read_buffer(buffer), np.uint32)
values, counts = np.unique(found, return_counts=True)
print(f"{package}, SwiftShader of {folder.name}: " + ", ".join(f"{n} x {v}" for v, n in zip(values, counts)))
expected = [1, 2, 3, 4] if package == "wgpu" else [1]
assert values.tolist() == expected, "the behaviour changed"
EOF
  done
done
