/** No part of LiteRT: the device that a test plays, instead of LiteRT's native library. */
package com.google.ai.edge.litert

import android.content.res.AssetManager
import java.io.File
import java.io.IOException
import java.util.concurrent.ConcurrentHashMap
import java.util.concurrent.atomic.AtomicInteger
import java.util.concurrent.atomic.AtomicLong

/** An input or output of a network; a buffer of another type or number of elements is refused. */
class StandInPort(val type: TensorType) {
    val elements: Int get() = type.layout?.dimensions.orEmpty().fold(1, Int::times)
}

/** What `create` was asked for: the file's name, the accelerators, the GPU's options. */
class Opened(val file: String, val accelerators: Set<Accelerator>, val gpu: CompiledModel.GpuOptions?)

object StandInDevice {
    /** Handles that are open: environments, models and buffers. */
    val handles: AtomicInteger = AtomicInteger()
    val environments: AtomicInteger = AtomicInteger()
    val opened: MutableList<Opened> = ArrayList()

    @Volatile
    var available: Set<Accelerator> = setOf(Accelerator.CPU, Accelerator.GPU)

    /** What making an environment throws, such as UnsatisfiedLinkError where there is no native library. */
    @Volatile
    var broken: Throwable? = null

    @Volatile
    var refuses: (String) -> Boolean = { false }

    /** Gives the inputs and outputs of a file's signature; null for a signature that the file has not. */
    @Volatile
    var ports: (file: String, signature: String) -> Map<String, StandInPort>? = { _, _ -> null }

    /** Runs a file on its inputs; gives its outputs. */
    @Volatile
    var run: (file: String, inputs: Map<String, Any?>) -> Map<String, Any> = { _, _ -> error("no network") }

    private val numbers = AtomicLong(1)
    private val models = ConcurrentHashMap<Long, String>()
    private val buffers = ConcurrentHashMap<Long, Buffer>()

    private class Buffer(val port: StandInPort) {
        @Volatile
        var values: Any? = null
    }

    internal fun environment(): Long {
        broken?.let { throw it }
        environments.incrementAndGet()
        return handle()
    }

    internal fun open(path: String, options: CompiledModel.Options): Long {
        if (!File(path).isFile) throw LiteRtException(Status.ErrorFileIO, "no file $path")
        return compile(path, options)
    }

    internal fun open(assets: AssetManager, name: String, options: CompiledModel.Options): Long {
        try {
            assets.open(name).close()
        } catch (problem: IOException) {
            throw LiteRtException(Status.ErrorFileIO, "no asset $name")
        }
        return compile(name, options)
    }

    private fun compile(path: String, options: CompiledModel.Options): Long {
        val lacking = options.accelerators - available - Accelerator.CPU
        if (lacking.isNotEmpty() || refuses(path)) {
            throw LiteRtException(Status.ErrorCompilation, "Failed to compile model")
        }
        opened += Opened(File(path).name, options.accelerators, options.gpuOptions)
        return handle().also { models[it] = File(path).name }
    }

    internal fun port(model: Long, name: String, signature: String): StandInPort =
        ports(models.getValue(model), signature)?.get(name)
            ?: throw LiteRtException(Status.ErrorNotFound, "no $name in the signature '$signature'")

    internal fun buffer(model: Long, name: String, signature: String): Long {
        val port = port(model, name, signature)
        return handle().also { buffers[it] = Buffer(port) }
    }

    internal fun write(buffer: Long, data: Any, size: Int) {
        val port = buffers.getValue(buffer).port
        val fits = if (data is IntArray) TensorType.ElementType.INT else TensorType.ElementType.FLOAT
        if (port.elements != size || port.type.elementType != fits) {
            throw LiteRtException(Status.ErrorInvalidArgument, "$size elements of $fits do not fit the buffer")
        }
        buffers.getValue(buffer).values = if (data is IntArray) data.clone() else (data as FloatArray).clone()
    }

    internal fun read(buffer: Long): Any =
        buffers.getValue(buffer).values ?: throw LiteRtException(Status.ErrorRuntimeFailure, "nothing has run")

    internal fun run(model: Long, signature: String, inputs: Map<String, Long>, outputs: Map<String, Long>) {
        for (name in inputs.keys + outputs.keys) port(model, name, signature)
        val values = inputs.mapValues { buffers.getValue(it.value).values }
        val results = run(models.getValue(model), values)
        for ((name, buffer) in outputs) buffers.getValue(buffer).values = results.getValue(name)
    }

    internal fun freed(handle: Long) {
        models.remove(handle)
        buffers.remove(handle)
        destroyed()
    }

    internal fun destroyed() {
        handles.decrementAndGet()
    }

    private fun handle(): Long {
        handles.incrementAndGet()
        return numbers.getAndIncrement()
    }
}
