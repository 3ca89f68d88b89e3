/** Which browsers have WebGPU; a device or driver may still be left out by its browser. */
export const BROWSERS =
  'These browsers have WebGPU: Chrome and Edge from version 113 on Windows, macOS and ChromeOS,' +
  ' Chrome from version 121 on Android 12 or later and from 144 on some Linux computers,' +
  ' Safari from version 26 on iPhone, iPad and Mac,' +
  ' and Firefox from version 141 on Windows and 145 on Macs with Apple silicon and macOS 26.';
