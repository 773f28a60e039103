module.exports = (output) => ({ pass: /please/i.test(output), score: 1, reason: 'politeness' });
