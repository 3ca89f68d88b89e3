/** LiteRT's signatures, litert/kotlin/…/LiteRtException.kt; docs/android-apis.md names their commit and lines. */
@file:Suppress("unused")

package com.google.ai.edge.litert

class LiteRtException(private val status: Status, message: String) : Exception(message) {
    constructor(code: Int, message: String) : this(Status.fromCode(code), message)
}

enum class Status(val code: Int) {
    Ok(0),
    ErrorInvalidArgument(1),
    ErrorMemoryAllocationFailure(2),
    ErrorRuntimeFailure(3),
    ErrorMissingInputTensor(4),
    ErrorUnsupported(5),
    ErrorNotFound(6),
    ErrorFileIO(500),
    ErrorInvalidFlatbuffer(501),
    ErrorCompilation(504),
    ;

    companion object {
        fun fromCode(code: Int): Status = requireNotNull(values().find { it.code == code }) { "no status $code" }
    }
}
