export const word = 'one';
