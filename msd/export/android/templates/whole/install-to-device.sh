#!/bin/sh
# Puts the model into the app's own folder on a device, for development: the app finds it there before all else.
# The app, by default the debug build of this export's, must be installed and debuggable; another one is an argument.
# ADB names another adb; ANDROID_SERIAL chooses among devices.
set -eu

package=${1:-'@@{package}.debug'}
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
adb=${ADB:-adb}
stage=/data/local/tmp/sd-models

if ! command -v "$adb" >/dev/null; then
    echo "there is no $adb: install the Android SDK's platform-tools, or name an adb in ADB" >&2
    exit 1
fi
"$adb" shell "mkdir -p $stage && run-as $package sh -c 'mkdir -p files/sd-models && rm -f files/sd-models/*'" </dev/null
for file in \
@@{files}
do
    name=${file##*/}
    echo "$name"
    "$adb" push "$here/$file" "$stage/$name" </dev/null
    "$adb" shell "run-as $package cp $stage/$name files/sd-models/$name && rm $stage/$name" </dev/null
done
