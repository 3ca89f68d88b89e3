/** LiteRT's signatures, litert/kotlin/…/Model.kt; scripts/check_android_apis.py compares them. */
@file:Suppress("unused", "UNUSED_PARAMETER")

package com.google.ai.edge.litert

import android.content.res.AssetManager

data class TensorType
@JvmOverloads
constructor(val elementType: ElementType, val layout: Layout? = null) {
    enum class ElementType {
        INT,
        FLOAT,
        INT8,
        BOOLEAN,
        INT64,
    }

    data class Layout
    @JvmOverloads
    constructor(val dimensions: List<Int>, val strides: List<Int> = listOf()) {
        val rank: Int
            get() = dimensions.size

        val hasStrides: Boolean
            get() = strides.isNotEmpty()
    }
}

class CompiledModel
private constructor(
    handle: Long,
    private val env: Environment,
    private val envManaged: Boolean = false,
) : JniHandle(handle) {
    data class CpuOptions
    constructor(
        val numThreads: Int? = null,
        val xnnPackFlags: Int? = null,
        val xnnPackWeightCachePath: String? = null,
    )

    data class GpuOptions
    constructor(
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
        val externalTensorsMode: Boolean? = null,
        val externalTensorPattern: String? = null,
        val backend: Backend? = null,
        val priority: Priority? = null,
        val numStepsOfCommandBufferPreparations: Int? = null,
    ) {
        enum class Precision constructor(val value: Int) {
            DEFAULT(0),
            FP16(1),
            FP32(2),
            FP16_WITH_FP32_ACCUM(3),
        }

        enum class BufferStorageType constructor(val value: Int) {
            DEFAULT(0),
            BUFFER(1),
            TEXTURE_2D(2),
        }

        enum class Backend constructor(val value: Int) {
            AUTOMATIC(0),
            OPENCL(1),

            @Deprecated("Use AUTOMATIC instead.")
            WEBGPU(2),
            OPENGL(3),
        }

        enum class Priority constructor(val value: Int) {
            DEFAULT(0),
            LOW(1),
            NORMAL(2),
            HIGH(3),
        }
    }

    class Options constructor(internal val accelerators: Set<Accelerator>) {
        constructor(vararg accelerators: Accelerator) : this(setOf(*accelerators))

        var cpuOptions: CpuOptions? = null
        var gpuOptions: GpuOptions? = null

        companion object {
            @JvmStatic val CPU = Options(Accelerator.CPU)
        }
    }

    @Throws(LiteRtException::class)
    fun createInputBuffer(inputName: String, signature: String = ""): TensorBuffer = buffer(inputName, signature)

    @Throws(LiteRtException::class)
    fun createOutputBuffer(outputName: String, signature: String = ""): TensorBuffer = buffer(outputName, signature)

    @Throws(LiteRtException::class)
    fun run(
        inputs: Map<String, TensorBuffer>,
        outputs: Map<String, TensorBuffer>,
        signature: String = "",
    ) {
        assertNotDestroyed()
        val (given, asked) = listOf(inputs, outputs).map { side -> side.mapValues { it.value.handle } }
        StandInDevice.run(handle, signature, given, asked)
    }

    fun getInputTensorType(inputName: String, signature: String = ""): TensorType = type(inputName, signature)

    fun getOutputTensorType(outputName: String, signature: String = ""): TensorType = type(outputName, signature)

    override fun destroy() {
        StandInDevice.freed(handle)
        if (envManaged) env.close()
    }

    private fun buffer(name: String, signature: String): TensorBuffer {
        assertNotDestroyed()
        return TensorBuffer(StandInDevice.buffer(handle, name, signature))
    }

    private fun type(name: String, signature: String): TensorType {
        assertNotDestroyed()
        return StandInDevice.port(handle, name, signature).type
    }

    companion object {
        @Throws(LiteRtException::class)
        @JvmOverloads
        @JvmStatic
        fun create(
            assetManager: AssetManager,
            assetName: String,
            options: Options = Options.CPU,
            optionalEnv: Environment? = null,
        ): CompiledModel {
            val env = optionalEnv ?: Environment.create()
            return CompiledModel(StandInDevice.open(assetManager, assetName, options), env, optionalEnv == null)
        }

        @Throws(LiteRtException::class)
        @JvmOverloads
        @JvmStatic
        fun create(
            filePath: String,
            options: Options = Options.CPU,
            optionalEnv: Environment? = null,
        ): CompiledModel {
            val env = optionalEnv ?: Environment.create()
            return CompiledModel(StandInDevice.open(filePath, options), env, optionalEnv == null)
        }
    }
}
