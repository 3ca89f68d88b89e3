/** Stubs of android.content.res. */
package android.content.res

class Configuration
