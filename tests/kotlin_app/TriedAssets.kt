package dev.msd.tried

import dev.msd.assets.Models
import dev.msd.assets.played

internal fun assets(context: TriedContext): Model = played(Models(context))
