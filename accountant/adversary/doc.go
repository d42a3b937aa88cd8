// Package adversary bounds what adversaries learn about one contribution to a model that is trained
// by draw and discard (Pihur et al., "Differentially-Private 'Draw and Discard' Machine Learning",
// arXiv 1807.04369, 2018).
//
// The server holds k instances of a model. For each contribution it draws the index i of an
// instance and, independently, the index j of the instance to replace, both uniform on 1…k. The
// client receives instance i, takes one noisy step on its own data, and the result replaces
// instance j. Indices may be equal.
//
// Every bound here is derived in the comments or cited, and holds for that process if
//
//   - the indices do not depend on any client's data or on returned models: a server that rejects
//     models by their values violates this for the rejected ones;
//   - the client whose privacy is considered contributes once in the considered time;
//   - later contributions depend on the contribution only through the instances that they draw.
package adversary
