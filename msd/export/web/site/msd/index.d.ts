export { MsdError } from "./errors.js";
export { Model, openModel } from "./model.js";
