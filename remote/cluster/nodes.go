package cluster

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/edl-go/edl/fault"
)

// RegisterNode announces a listener.
func (r *registry) RegisterNode(ctx context.Context, id, address string) (Membership, error) {
	if !legalID.MatchString(id) {
		return nil, fault.E(fault.InvalidArgument, fault.At("cluster"), fault.Got("node id "+fault.Quote(id)),
			fault.Want("1 to 128 letters, digits, '.', '_', ':' and '-'"))
	}
	held, err := r.claim(ctx, Member{}, nodesPrefix+id, address)
	if held == nil && err == nil {
		err = fault.E(fault.Fenced, fault.At(nodesPrefix+id), fault.Got("another live node of this id"),
			fault.Hint("give every listener an id of its own"))
	}
	return result(held, err)
}

// Nodes lists the listeners.
func (r *registry) Nodes(ctx context.Context) ([]Node, error) {
	v, err := r.look(ctx, nodesPrefix)
	nodes := make([]Node, 0, len(v))
	for key, e := range v {
		nodes = append(nodes, Node{ID: strings.TrimPrefix(key, nodesPrefix), Address: e.value})
	}
	slices.SortFunc(nodes, func(a, b Node) int { return cmp.Compare(a.ID, b.ID) })
	return nodes, err
}
