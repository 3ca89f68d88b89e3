/** LiteRT's signatures, litert/kotlin/…/LiteRtException.kt; scripts/check_android_apis.py compares them. */
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
    ErrorTimeoutExpired(7),
    ErrorWrongVersion(8),
    ErrorUnknown(9),
    ErrorAlreadyExists(10),
    ErrorCancelled(11),
    ErrorFileIO(500),
    ErrorInvalidFlatbuffer(501),
    ErrorDynamicLoading(502),
    ErrorSerialization(503),
    ErrorCompilation(504),
    ErrorIndexOOB(1000),
    ErrorInvalidIrType(1001),
    ErrorInvalidGraphInvariant(1002),
    ErrorGraphModification(1003),
    ErrorInvalidToolConfig(1500),
    LegalizeNoMatch(2000),
    ErrorInvalidLegalization(2001),
    PatternNoMatch(3000),
    ErrorInvalidTransformation(3001),
    ErrorUnsupportedRuntimeVersion(4000),
    ErrorUnsupportedCompilerVersion(4001),
    ErrorIncompatibleByteCodeVersion(4002),
    ErrorUnsupportedShapeInferencedOp(5000),
    ErrorShapeInferenceFailed(5001),
    ;

    companion object {
        fun fromCode(code: Int): Status = requireNotNull(values().find { it.code == code }) { "no status $code" }
    }
}
