package dev.msd.runtime

import android.content.Context
import com.google.ai.edge.litert.CompiledModel
import com.google.ai.edge.litert.TensorBuffer
import java.io.File

/**
 * Returns a pipeline for the model in [folder], its files checked.
 *
 * Blocks while hundreds of megabytes are hashed the first time: call it off the main thread. Throws [BadManifest]
 * and [BadFile].
 */
public fun openPipeline(context: Context, folder: File, onProgress: OnProgress = OnProgress {}): Pipeline {
    val manifest = Manifest.open(folder)
    Verify(File(context.noBackupFilesDir, "msd")).check(manifest, folder) { done, total ->
        onProgress.onProgress(Progress.Checking(done, total))
    }
    val opener = GpuOpener(folder, File(context.codeCacheDir, "msd-gpu"), manifest.precision)
    return Pipeline(manifest, ClipTokenizer.openAll(manifest, folder), opener)
}

/**
 * Opens networks on the GPU and nowhere else: what the GPU does not take whole is refused, with [NoGpu].
 *
 * Files are opened by path, which maps them; as assets they would be copied to memory. Compiled programs are kept
 * in [cache] under the file's SHA-256.
 */
public class GpuOpener(private val folder: File, private val cache: File, private val precision: String) : Opener {
    override fun open(file: ModelFile): Network {
        cache.mkdirs()
        return explained("${file.name} cannot be compiled for this device's GPU", Why.RefusedNetwork) {
            val path = File(folder, file.name).absolutePath
            GpuNetwork(file, CompiledModel.create(path, gpuOnly(precision, cache, file.sha256), Gpu.environment))
        }
    }
}

private class GpuNetwork(private val file: ModelFile, private val model: CompiledModel) : Network {
    private val inputs = HashMap<String, TensorBuffer>()
    private val outputs = HashMap<String, TensorBuffer>()

    init {
        var whole = false
        try {
            for (port in file.inputs) inputs[port.name] = model.createInputBuffer(port.name, file.signature)
            for (port in file.outputs) outputs[port.name] = model.createOutputBuffer(port.name, file.signature)
            whole = true
        } finally {
            if (!whole) close()
        }
    }

    override fun run(inputs: Map<String, Tensor>): Map<String, FloatArray> =
        explained("${file.name} cannot be run on this device's GPU", Why.RefusedNetwork) {
            for ((name, value) in inputs) {
                val buffer = this.inputs.getValue(name)
                when (value) {
                    is Tensor.Floats -> buffer.writeFloat(value.values)
                    is Tensor.Ints -> buffer.writeInt(value.values)
                }
            }
            model.run(this.inputs, outputs, file.signature)
            outputs.mapValues { it.value.readFloat() }
        }

    override fun close() {
        for (buffer in inputs.values + outputs.values) buffer.close()
        model.close()
    }
}
