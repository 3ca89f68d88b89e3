import { checkCancelled } from './errors.js';
import { awaited, checked } from './gpu-errors.js';

/**
 * @typedef {import('./program-description.js').ProgramDescription} ProgramDescription
 * @typedef {{ pipeline: GPUComputePipeline, group: GPUBindGroup, groups: [number, number, number] }} Dispatch
 */

/**
 * Compiles a program's shaders, and binds its buffers to them.
 *
 * @param {GPUDevice} device
 * @param {ProgramDescription} program
 * @param {GPUBuffer[]} buffers
 * @param {AbortSignal} [signal]
 * @returns {Promise<Dispatch[]>}
 */
export async function createDispatches(device, program, buffers, signal) {
  const layouts = await checked(device, 'the network', () => program.pipelines.map(layoutOf(device)));
  const pipelines = await createPipelines(device, program, layouts);
  checkCancelled(signal);
  return checked(device, 'the network', () =>
    program.steps.map(({ pipeline, places, groups }) => {
      const entries = places.map(({ buffer, offset, bytes }, binding) => ({
        binding,
        resource: { buffer: buffers[buffer], offset, size: bytes },
      }));
      const group = device.createBindGroup({ layout: layouts[pipeline], entries });
      return { pipeline: pipelines[pipeline], group, groups };
    }),
  );
}

/** @param {GPUDevice} device */
function layoutOf(device) {
  return (/** @type {ProgramDescription['pipelines'][number]} */ { bindings }) =>
    device.createBindGroupLayout({
      entries: bindings.map((type, binding) => {
        return { binding, visibility: GPUShaderStage.COMPUTE, buffer: { type } };
      }),
    });
}

/**
 * @param {GPUDevice} device
 * @param {ProgramDescription} program
 * @param {GPUBindGroupLayout[]} layouts
 */
async function createPipelines(device, program, layouts) {
  const made = await checked(device, 'a shader', () =>
    program.pipelines.map(({ name, wgsl }, i) => {
      const module = device.createShaderModule({ code: wgsl, label: name });
      const layout = device.createPipelineLayout({ bindGroupLayouts: [layouts[i]] });
      const compute = { module, entryPoint: 'main' };
      const pipeline = device.createComputePipelineAsync({ layout, compute, label: name });
      pipeline.catch(() => undefined);
      return pipeline;
    }),
  );
  const names = program.pipelines.map(({ name }) => `the shader ${name}`);
  return Promise.all(made.map((pipeline, i) => awaited(device, names[i], pipeline)));
}
