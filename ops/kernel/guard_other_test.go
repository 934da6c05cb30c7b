//go:build !unix

package kernel

import (
	"slices"
	"testing"

	"github.com/edl-go/edl/tensor"
)

// guards need pages that fault; without them the tests still compare results.
type guards struct{}

func newGuards(*testing.T, int) *guards { return &guards{} }

func guarded[T tensor.Float](_ *guards, _ int, x []T) []T { return slices.Clone(x) }
