package dev.msd.runtime

/**
 * What can go wrong: [message] is an English sentence for logs and developers, [why] the same without words, which an
 * app says in its users' language.
 */
public sealed class RuntimeFailure(message: String, cause: Throwable?, public val why: Why) : Exception(message, cause)

/** The manifest is missing, damaged, of another format than this library's, or incomplete. */
public class BadManifest(message: String, cause: Throwable? = null) : RuntimeFailure(message, cause, Why.DamagedApp)

/** A file that the manifest lists is missing, is not what the manifest says, or does not arrive. */
public class BadFile(message: String, cause: Throwable? = null, why: Why = Why.DamagedModel) :
    RuntimeFailure(message, cause, why)

/** There is too little space for files: [missing] bytes of it, 0 where that is not known. */
public class NoSpace(message: String, public val missing: Long) : RuntimeFailure(message, null, Why.FullDisk(missing))

/** The request cannot be fulfilled with this model: a number of steps without a schedule, for example. */
public class BadRequest(message: String) : RuntimeFailure(message, null, Why.Unsuitable)

/** This device cannot run the model at all: too little memory, or 32-bit apps only. */
public class BadDevice(message: String, why: Why) : RuntimeFailure(message, null, why)

/** A network could not be compiled for the GPU or run on it; nothing has been run on the CPU instead. */
public class NoGpu(message: String, cause: Throwable? = null, why: Why = Why.UnusableGpu) :
    RuntimeFailure(message, cause, why)

/** A network computed NaN, infinity or one colour, so there is no image. */
public class NoImage(message: String) : RuntimeFailure(message, null, Why.NoPicture)

/** The request was cancelled, or the pipeline closed. */
public class Cancelled(message: String) : RuntimeFailure(message, null, Why.Ended)
