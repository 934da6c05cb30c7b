package pserver

import (
	"slices"

	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/ops/comm"
	"github.com/edl-go/edl/program"
)

// quantum is how many bytes of slices a standby gets while nothing is updated, where the updates allow it.
const quantum = 16 << 20

// A blockNames is a program that knows which variables its blocks name. The program of an executor is one.
type blockNames interface {
	Names(block program.BlockIndex) (map[string]bool, error)
}

// portionsOf lists the slices of a server in portions, in which a standby that catches up gets them. Updates go on between two portions, and the standby
// applies them to what it has. So all slices that only one update names are in one portion, and what several name, such as learning rates, is in the first.
// What an update makes of slices that are not there yet does not matter: their portion follows. Where the update of one parameter depends on others, or the
// program does not tell what its blocks name, there is one portion.
func portionsOf(service *comm.Service, blocks ops.BlockRunner, bytes func(slice int) int) (portions [][]int, err error) {
	of, err := updatesOf(service, blocks)
	if err != nil {
		return nil, err
	}
	byUpdate := make([][]int, len(service.Optimize))
	portions = [][]int{nil}
	for i := range service.Slices {
		switch {
		case of == nil || of[i] == several:
			portions[0] = append(portions[0], i)
		case of[i] == none: // a portion may end behind it
			byUpdate = append(byUpdate, []int{i})
		default:
			byUpdate[of[i]] = append(byUpdate[of[i]], i)
		}
	}
	size := 0
	for _, list := range byUpdate {
		if size >= quantum {
			portions, size = append(portions, nil), 0
		}
		last := len(portions) - 1
		portions[last] = append(portions[last], list...)
		for _, i := range list {
			size += bytes(i)
		}
	}
	return portions, nil
}

// Whose slices are not those of one update.
const (
	none    = -1
	several = -2
)

// updatesOf returns the place in Optimize of the only update that names each slice, none, or several. It returns nil where all belong together.
func updatesOf(service *comm.Service, blocks ops.BlockRunner) ([]int, error) {
	knows, ok := blocks.(blockNames)
	if !ok {
		return nil, nil
	}
	of := make([]int, len(service.Slices))
	for i := range of {
		of[i] = none
	}
	for place, block := range service.Optimize {
		names, err := knows.Names(block)
		if err != nil {
			return nil, err
		}
		for i, slice := range service.Slices {
			switch {
			case !names[slice.Name]:
			case of[i] == none:
				of[i] = place
			default:
				of[i] = several
			}
		}
	}
	for _, block := range append(slices.Clone(service.Prepare), service.Global, service.LRDecay) {
		if block == comm.NoBlock {
			continue
		}
		names, err := knows.Names(block)
		if err != nil {
			return nil, err
		}
		for i, slice := range service.Slices {
			switch {
			case !names[slice.Name]:
			case of[i] >= 0 && block != service.LRDecay: // what it makes of the slice goes into the updates of all others
				return nil, nil
			default:
				of[i] = several
			}
		}
	}
	return of, nil
}
