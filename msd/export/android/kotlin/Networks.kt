package dev.msd.runtime

import android.content.Context
import com.google.ai.edge.litert.Accelerator
import com.google.ai.edge.litert.CompiledModel
import com.google.ai.edge.litert.CompiledModel.GpuOptions
import com.google.ai.edge.litert.Environment
import com.google.ai.edge.litert.LiteRtException
import com.google.ai.edge.litert.TensorBuffer
import java.io.File

/**
 * Returns a pipeline for the model in [folder], its files checked.
 *
 * Blocks while hundreds of megabytes are hashed the first time: call it off the main thread. Throws [BadManifest]
 * and [BadFile].
 */
public fun openPipeline(context: Context, folder: File): Pipeline {
    val manifest = Manifest.open(folder)
    Verify(File(context.noBackupFilesDir, "msd")).check(manifest, folder)
    val opener = GpuOpener(folder, File(context.codeCacheDir, "msd-gpu"), manifest.precision)
    return Pipeline(manifest, ClipTokenizer.open(manifest, folder), opener)
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
        val options = CompiledModel.Options(Accelerator.GPU)
        options.gpuOptions = GpuOptions(
            precision = if (precision == "fp32") GpuOptions.Precision.FP32 else GpuOptions.Precision.FP16,
            serializationDir = cache.absolutePath,
            modelCacheKey = file.sha256,
            serializeProgramCache = true,
        )
        return explained(file, "opened") {
            GpuNetwork(file, CompiledModel.create(File(folder, file.name).absolutePath, options, environment))
        }
    }

    private companion object {
        /** One for the process: each that is created leaks, and some twenty end the app. */
        val environment: Environment by lazy { Environment.create() }
    }
}

private class GpuNetwork(private val file: ModelFile, private val model: CompiledModel) : Network {
    /** LiteRT's for none is "". */
    private val signature = file.signature.orEmpty()
    private val inputs = HashMap<String, TensorBuffer>()
    private val outputs = HashMap<String, TensorBuffer>()

    init {
        try {
            for (port in file.inputs) inputs[port.name] = model.createInputBuffer(port.name, signature)
            for (port in file.outputs) outputs[port.name] = model.createOutputBuffer(port.name, signature)
        } catch (problem: LiteRtException) {
            close()
            throw problem
        }
    }

    override fun run(inputs: Map<String, Tensor>): FloatArray = explained(file, "run") {
        for ((name, value) in inputs) {
            val buffer = this.inputs.getValue(name)
            when (value) {
                is Tensor.Floats -> buffer.writeFloat(value.values)
                is Tensor.Ints -> buffer.writeInt(value.values)
            }
        }
        model.run(this.inputs, outputs, signature)
        outputs.getValue(file.outputs[0].name).readFloat()
    }

    override fun close() {
        for (buffer in inputs.values + outputs.values) buffer.close()
        model.close()
    }
}

private inline fun <T> explained(file: ModelFile, done: String, action: () -> T): T = try {
    action()
} catch (problem: LiteRtException) {
    val why = "${file.name} cannot be $done on this device's GPU: ${problem.message}"
    throw NoGpu("$why; nothing was drawn on the CPU instead", problem)
}
