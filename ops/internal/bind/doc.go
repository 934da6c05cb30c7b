// Package bind holds what the Bind functions of many ops have in common: the choice of a generic kernel by element
// type, and views of dims as counts.
package bind
