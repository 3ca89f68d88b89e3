/** LiteRT's signatures, litert/kotlin/…/TensorBuffer.kt; scripts/check_android_apis.py compares them. */
@file:Suppress("unused")

package com.google.ai.edge.litert

class TensorBuffer internal constructor(handle: Long) : JniHandle(handle) {
    @Throws(LiteRtException::class)
    fun writeInt(data: IntArray): Unit = write(data, data.size)

    @Throws(LiteRtException::class)
    fun writeFloat(data: FloatArray): Unit = write(data, data.size)

    @Throws(LiteRtException::class)
    fun writeInt8(data: ByteArray): Unit = write(data, data.size)

    @Throws(LiteRtException::class)
    fun readInt(): IntArray = read() as IntArray

    @Throws(LiteRtException::class)
    fun readFloat(): FloatArray = read() as FloatArray

    @Throws(LiteRtException::class)
    fun readInt8(): ByteArray = read() as ByteArray

    override protected fun destroy(): Unit = StandInDevice.freed(handle)

    private fun write(data: Any, size: Int) {
        assertNotDestroyed()
        StandInDevice.write(handle, data, size)
    }

    private fun read(): Any {
        assertNotDestroyed()
        return StandInDevice.read(handle)
    }
}
