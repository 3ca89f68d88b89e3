package dev.msd.runtime

/** What can go wrong and what an app can say of it: each message is a sentence for people. */
public sealed class RuntimeFailure(message: String, cause: Throwable? = null) : Exception(message, cause)

/** The manifest is missing, truncated, newer than this library, or lacks something. */
public class BadManifest(message: String, cause: Throwable? = null) : RuntimeFailure(message, cause)

/** A file that the manifest lists is missing, or is not what the manifest says. */
public class BadFile(message: String, cause: Throwable? = null) : RuntimeFailure(message, cause)

/** There is too little space for files to be copied. */
public class NoSpace(message: String) : RuntimeFailure(message)

/** The request cannot be drawn with this model: a number of steps without a schedule, for example. */
public class BadRequest(message: String) : RuntimeFailure(message)

/** A network could not be opened or run on the GPU; nothing has been drawn on the CPU instead. */
public class NoGpu(message: String, cause: Throwable? = null) : RuntimeFailure(message, cause)

/** Drawing was cancelled, or the pipeline closed. */
public class Cancelled(message: String) : RuntimeFailure(message)
