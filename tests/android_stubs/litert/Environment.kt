/** LiteRT's signatures, litert/kotlin/…/Environment.kt; scripts/check_android_apis.py compares them. */
@file:Suppress("unused", "UNUSED_PARAMETER")

package com.google.ai.edge.litert

import android.content.Context

class Environment private constructor(handle: Long) : JniHandle(handle) {
    enum class Option private constructor(val value: Int) {
        CompilerPluginLibraryDir(0),
        DispatchLibraryDir(1),
        SystemRuntimeHandle(23),
        SystemGpuAcceleratorHandle(30),
    }

    override protected fun destroy(): Unit = StandInDevice.destroyed()

    @Throws(LiteRtException::class)
    fun getAvailableAccelerators(): Set<Accelerator> {
        assertNotDestroyed()
        return StandInDevice.available
    }

    companion object {
        @Throws(LiteRtException::class)
        @JvmOverloads
        @JvmStatic
        fun create(
            context: Context,
            options: Map<Option, String> = mapOf(),
            enableCompilerCache: Boolean = true,
        ): Environment {
            if (enableCompilerCache) context.cacheDir?.absolutePath
            return Environment(StandInDevice.environment())
        }

        @Throws(LiteRtException::class)
        @JvmOverloads
        @JvmStatic
        fun create(options: Map<Option, String> = mapOf()): Environment = Environment(StandInDevice.environment())
    }
}
