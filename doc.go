// Package edl trains models on one machine or on many, from one program.
//
// It has no code of its own. A program that writes models imports
//
//   - [github.com/edl-go/edl/layers]: ops of the forward pass, datasets and readers
//   - [github.com/edl-go/edl/optimizer]: gradients and updates
//
// and one that runs them
//
//   - [github.com/edl-go/edl/executor]: on this machine; its Executor has the contract of both
//   - [github.com/edl-go/edl/remote]: on a cluster
//   - [github.com/edl-go/edl/serving]: in a service that answers requests
//
// docs/architecture.md is the map of the rest.
package edl
