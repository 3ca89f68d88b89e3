/** Which browsers have WebGPU; a device or driver may still be left out by its browser. */
export const BROWSERS: string;
