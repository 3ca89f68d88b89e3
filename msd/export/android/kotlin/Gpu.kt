package dev.msd.runtime

import com.google.ai.edge.litert.Accelerator
import com.google.ai.edge.litert.CompiledModel
import com.google.ai.edge.litert.CompiledModel.GpuOptions
import com.google.ai.edge.litert.Environment
import com.google.ai.edge.litert.LiteRtException
import java.io.File

internal object Gpu {
    /** One for the process: the GPU accelerator remembers the last one in a static variable, and each of them leaks. */
    val environment: Environment by lazy { Environment.create() }
}

/**
 * Returns options that let the GPU run a network, or nothing.
 *
 * Programs are kept in [cache] under [key], so that only the first start compiles them. Weights are not
 * (serializeExternalTensors is unset): they would lie on the disk twice. The rest is left to LiteRT, which chooses
 * storage by the GPU it finds.
 */
internal fun gpuOnly(precision: String, cache: File, key: String): CompiledModel.Options =
    CompiledModel.Options(Accelerator.GPU).apply {
        gpuOptions = GpuOptions(
            precision = if (precision == "fp32") GpuOptions.Precision.FP32 else GpuOptions.Precision.FP16,
            serializationDir = cache.absolutePath,
            modelCacheKey = key,
            serializeProgramCache = true,
        )
    }

/**
 * Returns what [action] does; throws [NoGpu] for whatever LiteRT throws, beginning with [failure], because of [why].
 *
 * Beside its own exception those are an error where its native library or the GPU's is missing, and the ones of the
 * standard library that its sources throw for a closed handle or an unknown status.
 */
internal inline fun <T> explained(failure: String, why: Why, action: () -> T): T = try {
    action()
} catch (problem: LiteRtException) {
    throw noGpu(failure, problem, why)
} catch (problem: LinkageError) {
    throw noGpu(failure, problem, why)
} catch (problem: IllegalStateException) {
    throw noGpu(failure, problem, why)
} catch (problem: IllegalArgumentException) {
    throw noGpu(failure, problem, why)
}

internal fun noGpu(failure: String, problem: Throwable, why: Why): NoGpu {
    val said = generateSequence(problem) { it.cause }.last().message ?: problem.javaClass.simpleName
    return NoGpu("$failure: $said; nothing was run on the CPU instead", problem, why)
}
