/** Stubs of LiteRT's Kotlin interface, com.google.ai.edge.litert:litert, as far as the sources use it. */
@file:Suppress("unused", "UNUSED_PARAMETER")

package com.google.ai.edge.litert

import java.io.File
import java.util.concurrent.atomic.AtomicBoolean
import java.util.concurrent.atomic.AtomicInteger

enum class Accelerator(val value: Int) { NONE(0), CPU(1), GPU(2), NPU(3) }

enum class Status(val code: Int) { ErrorRuntimeFailure(3), ErrorCompilation(504) }

class LiteRtException(private val status: Status, message: String) : Exception(message)

abstract class JniHandle internal constructor() : AutoCloseable {
    private val destroyed = AtomicBoolean(false)

    init {
        Device.handles.incrementAndGet()
    }

    protected fun assertNotDestroyed() = check(!destroyed.get()) { "The handle has been destroyed." }

    final override fun close() {
        if (destroyed.compareAndSet(false, true)) Device.handles.decrementAndGet()
    }
}

class Environment private constructor() : JniHandle() {
    enum class Option(val value: Int) { CompilerPluginLibraryDir(0), DispatchLibraryDir(1) }

    companion object {
        @JvmOverloads
        @JvmStatic
        fun create(options: Map<Option, String> = mapOf()): Environment {
            Device.environments.incrementAndGet()
            return Environment()
        }
    }
}

class TensorBuffer internal constructor() : JniHandle() {
    internal var values: Any? = null

    fun writeInt(data: IntArray) = write(data)

    fun writeFloat(data: FloatArray) = write(data)

    fun readFloat(): FloatArray {
        assertNotDestroyed()
        return values as FloatArray
    }

    private fun write(data: Any) {
        assertNotDestroyed()
        values = data
    }
}

class CompiledModel private constructor(private val path: String) : JniHandle() {
    data class GpuOptions(
        val constantTensorSharing: Boolean? = null,
        val infiniteFloatCapping: Boolean? = null,
        val allowSrcQuantizedFcConvOps: Boolean? = null,
        val precision: Precision? = null,
        val bufferStorageType: BufferStorageType? = null,
        val preferTextureWeights: Boolean? = null,
        val serializationDir: String? = null,
        val modelCacheKey: String? = null,
        val serializeProgramCache: Boolean? = null,
        val serializeExternalTensors: Boolean? = null,
    ) {
        enum class Precision(val value: Int) { DEFAULT(0), FP16(1), FP32(2) }

        enum class BufferStorageType(val value: Int) { DEFAULT(0), BUFFER(1), TEXTURE_2D(2) }
    }

    class Options(internal val accelerators: Set<Accelerator>) {
        constructor(vararg accelerators: Accelerator) : this(setOf(*accelerators))

        var gpuOptions: GpuOptions? = null
    }

    fun createInputBuffer(inputName: String, signature: String? = null): TensorBuffer {
        assertNotDestroyed()
        return TensorBuffer()
    }

    fun createOutputBuffer(outputName: String, signature: String? = null): TensorBuffer {
        assertNotDestroyed()
        return TensorBuffer()
    }

    fun run(inputs: Map<String, TensorBuffer>, outputs: Map<String, TensorBuffer>, signature: String? = null) {
        assertNotDestroyed()
        outputs.values.single().values = Device.run(File(path).name, inputs.mapValues { it.value.values })
    }

    companion object {
        @JvmOverloads
        @JvmStatic
        fun create(filePath: String, options: Options, optionalEnv: Environment? = null): CompiledModel {
            if (!File(filePath).isFile) throw LiteRtException(Status.ErrorRuntimeFailure, "no file")
            if (Device.refuses(filePath)) throw LiteRtException(Status.ErrorCompilation, "Failed to compile model")
            Device.opened += Triple(File(filePath).name, options.accelerators, options.gpuOptions)
            return CompiledModel(filePath)
        }
    }
}

/** Not LiteRT's: the device that a test plays. */
object Device {
    val handles = AtomicInteger()
    val environments = AtomicInteger()
    val opened = ArrayList<Triple<String, Set<Accelerator>, CompiledModel.GpuOptions?>>()

    @Volatile
    var refuses: (String) -> Boolean = { false }

    @Volatile
    var run: (String, Map<String, Any?>) -> FloatArray = { _, _ -> error("no network") }
}
