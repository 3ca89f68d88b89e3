/** LiteRT's signatures, litert/kotlin/…/Common.kt; scripts/check_android_apis.py compares them. */
@file:Suppress("unused")

package com.google.ai.edge.litert

import java.util.concurrent.atomic.AtomicBoolean

enum class Accelerator private constructor(val value: Int) {
    NONE(0),
    CPU(1),
    GPU(2),
    NPU(3),
}

abstract class JniHandle internal constructor(internal val handle: Long) : AutoCloseable {
    private val destroyed = AtomicBoolean(false)

    protected fun assertNotDestroyed(): Unit = check(!destroyed.get()) { "The handle has been destroyed." }

    protected abstract fun destroy()

    final override fun close() {
        if (destroyed.compareAndSet(false, true)) destroy()
    }
}
