// Package digits makes a dataset of digits out of Go's own fonts, in the shape of MNIST: grey images of 28x28 and
// labels 0 to 9. It lets examples, tests and first steps train something that is worth looking at without a download.
//
// Each image is a digit of one of eight fonts, turned, scaled, sheared and shifted at random, with noise. Any ten samples
// from a multiple of ten on hold each digit once. Sample i is a function of seed and i, the same on every machine, so a
// training and a test set are different seeds or different ranges of i.
package digits
