package reference

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/program"
)

// A request is what a half of a program was prepared for.
type request struct {
	half          *program.Program
	shapes, fetch string
}

// prepared are the halves that were compiled.
type prepared map[request]*executor.Prepared

// of compiles a half for feeds of these shapes, once.
func (all prepared) of(ctx context.Context, local *executor.Local, half *program.Program, feed executor.Feed,
	fetch []string) (*executor.Prepared, error) {
	var shapes strings.Builder
	for _, name := range slices.Sorted(maps.Keys(feed)) {
		fmt.Fprintf(&shapes, "%q%s", name, feed[name])
	}
	key := request{half, shapes.String(), fmt.Sprintf("%q", fetch)}
	if p := all[key]; p != nil {
		return p, nil
	}
	p, err := local.Prepare(ctx, half, feed, fetch...)
	if err == nil {
		all[key] = p
	}
	return p, err
}
