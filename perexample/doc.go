// Package perexample reads a Gorgonia loss graph, finds how each parameter is
// used, and adds the nodes that give squared gradient norms per record and
// clipped sums. [PrivateNetwork] states what they guarantee.
package perexample
