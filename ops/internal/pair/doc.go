// Package pair registers an op together with the op that computes its gradient.
//
// Fluid's gradient of op F is an op F_grad that reads some of F's inputs and outputs and the gradients of F's outputs, and
// writes the gradients of F's inputs. Slots, attributes and shapes of F_grad follow from those of F, so they are
// derived here and cannot drift apart.
package pair
