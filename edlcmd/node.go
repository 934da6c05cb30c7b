package edlcmd

import (
	"context"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote"
	"github.com/edl-go/edl/remote/listen/schedule"
)

// nodeRow is one machine in the JSON of "edl node list" and "edl top".
type nodeRow struct {
	Node          string  `json:"node"`
	Cores         float64 `json:"cores,omitempty"` // that jobs share; absent: they are not counted
	Memory        int64   `json:"memory,omitempty"`
	CoresPromised float64 `json:"cores_promised"`
	MemPromised   int64   `json:"memory_promised"`
	Jobs          int     `json:"jobs"`
	Cordoned      bool    `json:"cordoned,omitempty"`
}

func nodeRowOf(n *rpc.NodeStatus) nodeRow {
	return nodeRow{Node: n.Name, Cores: float64(n.Has.GetMillicores()) / 1000, Memory: n.Has.GetMemory(), CoresPromised: float64(n.Promised.GetMillicores()) / 1000,
		MemPromised: n.Promised.GetMemory(), Jobs: int(n.Jobs), Cordoned: n.Cordoned}
}

func newNode(c *console) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "node",
		Short: "List the machines of a listener, and keep jobs from starting on one",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newNodeList(c), newNodeDrain(c),
		newNodeChange(c, "cordon", "Let nothing start on a machine; what runs there goes on", remote.Cordon),
		newNodeChange(c, "uncordon", "Let roles start on a machine again", remote.Uncordon))
	return cmd
}

func newNodeList(c *console) *cobra.Command {
	f := &findFlags{}
	var output *choice
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the machines of a listener: what they have, and what is promised to jobs",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			client, err := f.open(cmd.Context(), "")
			if err != nil {
				return err
			}
			defer client.Close()
			ctx, cancel := context.WithTimeout(cmd.Context(), callTime)
			defer cancel()
			nodes, err := remote.Nodes(ctx, client)
			if err != nil {
				return err
			}
			if output.value == "json" {
				rows := make([]nodeRow, len(nodes))
				for i, n := range nodes {
					rows[i] = nodeRowOf(n)
				}
				return writeJSON(c.out, struct {
					Nodes []nodeRow `json:"nodes"`
				}{rows})
			}
			return writeNodes(c.out, nodes)
		},
	}
	f.add(cmd)
	output = outputFlag(cmd)
	return cmd
}

// writeNodes writes what machines have, and what is promised of it.
func writeNodes(w io.Writer, nodes []*rpc.NodeStatus) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "NODE\tCORES\tMEMORY\tJOBS\tSTATE")
	for _, n := range nodes {
		state := "ready"
		if n.Cordoned {
			state = "cordoned"
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%d\t%s\n", n.Name, promisedOf(schedule.CoresNumber, n.Promised.GetMillicores(), n.Has.GetMillicores()),
			promisedOf(schedule.MemoryText, n.Promised.GetMemory(), n.Has.GetMemory()), n.Jobs, state)
	}
	return t.Flush()
}

// promisedOf is what is promised of what there is, where that is counted.
func promisedOf(text func(int64) string, promised, has int64) string {
	if has == 0 {
		return text(promised)
	}
	return text(promised) + " of " + text(has)
}

func newNodeChange(c *console, name, short string, change func(context.Context, *remote.Client, string) ([]*rpc.NodeStatus, error)) *cobra.Command {
	f := &findFlags{}
	cmd := &cobra.Command{
		Use:   name + " NODE",
		Short: short,
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			client, err := f.open(cmd.Context(), "")
			if err != nil {
				return err
			}
			defer client.Close()
			ctx, cancel := context.WithTimeout(cmd.Context(), callTime)
			defer cancel()
			nodes, err := change(ctx, client, args[0])
			if err != nil {
				return err
			}
			return writeNodes(c.out, nodes)
		},
	}
	f.add(cmd)
	return cmd
}

// drainLook is how often a drained node is looked at.
const drainLook = 500 * time.Millisecond

func newNodeDrain(c *console) *cobra.Command {
	f := &findFlags{}
	var limit time.Duration
	cmd := &cobra.Command{
		Use:   "drain NODE",
		Short: "Let nothing start on a machine, and wait until the jobs there have ended",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if limit <= 0 {
				return fault.E(fault.InvalidArgument, fault.At("--timeout"), fault.Got(limit.String()), fault.Want("a time above 0, such as 1h"))
			}
			return drainNode(cmd.Context(), c, f, args[0], limit)
		},
	}
	f.add(cmd)
	cmd.Flags().DurationVar(&limit, "timeout", time.Hour, "give up after `TIME`; the node stays cordoned")
	return cmd
}

func drainNode(ctx context.Context, c *console, f *findFlags, node string, limit time.Duration) error {
	client, err := f.open(ctx, "")
	if err != nil {
		return err
	}
	defer client.Close()
	left := -1
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fault.E(fault.DeadlineExceeded, fault.At("node "+node), fault.Gotf("jobs that run there after %v", limit),
		fault.Want("their end"), fault.Hint("the node stays cordoned; \"edl jobs\" lists them")))
	defer cancel()
	nodes, err := remote.Cordon(ctx, client, node)
	for ; err == nil; nodes, err = remote.Nodes(ctx, client) {
		i := slices.IndexFunc(nodes, func(n *rpc.NodeStatus) bool { return n.Name == node })
		if i < 0 || nodes[i].Jobs == 0 {
			_, err := fmt.Fprintf(c.out, "node %s is cordoned, and no job has anything there\n", node)
			return err
		}
		if jobs := int(nodes[i].Jobs); jobs != left {
			left = jobs
			fmt.Fprintf(c.err, "node %s is cordoned; jobs there: %d\n", node, jobs)
		}
		timer := time.NewTimer(drainLook)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return context.Cause(ctx)
		}
	}
	return err
}
