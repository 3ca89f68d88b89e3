/** A stub of android.os.Bundle. */
package android.os

class Bundle
