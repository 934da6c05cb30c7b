// Package random registers the ops that give parameters their initial values by chance: uniform_random,
// gaussian_random and truncated_gaussian_random.
//
// Chance is counted, not drawn: an element is a function of the seed, of the name of the variable and of its index,
// whatever was computed before, elsewhere or in parallel. So a startup program gives the same values on every machine and in every run.
// Seed 0, which in Fluid means another seed each time, is a seed like any other here; since the variable's name
// takes part, variables of one seed differ from each other.
//
// A slice of a variable starts with the values that it has in the whole: the attributes origin and first_element say of
// which variable it is a slice and where it begins. Slice makes such an op from that of the whole.
package random
