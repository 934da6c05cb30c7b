package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
)

// roleName is how commands call a role.
func roleName(r *job.RoleStatus) string {
	if r.Role == job.Role_COORDINATOR {
		return "coordinator"
	}
	return fmt.Sprintf("%s-%d", strings.ToLower(r.Role.String()), r.Index)
}

func writeRoles(w io.Writer, d *rpc.JobDetails) error {
	fmt.Fprintln(w)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "ROLE\tSTATE\tSTARTS\tPID\tNODE\tLAST END, OR WAIT")
	for _, r := range d.Status.Roles {
		pid := "-"
		if r.Pid != 0 {
			pid = fmt.Sprint(r.Pid)
		}
		node := r.Node
		if node == "" {
			node = "here"
		}
		fmt.Fprintf(t, "%s\t%s\t%d\t%s\t%s\t%s\n", roleName(r), strings.ToLower(r.State.String()), r.Starts, pid, node, lastOf(r))
	}
	return t.Flush()
}

// lastOf tells in a few words how a role ended last, else what it waits for. JSON has it all.
func lastOf(r *job.RoleStatus) string {
	f := r.Failure
	if f == nil {
		return r.Waiting
	}
	kind := fault.Kind(f.Kind)
	text := f.Got
	switch {
	case kind == fault.Drained:
		return "drained"
	case text == "":
		text = f.Message
	}
	text = oneLine(text)
	switch {
	case text == "":
		text = kind.String()
	case f.Message == "" || kind != fault.Internal:
		text = kind.String() + ": " + text
	}
	if runes := []rune(text); len(runes) > maxLast {
		text = string(runes[:maxLast-1]) + "…"
	}
	return text
}

// maxLast bounds what the table says of the last end of a role, in characters.
const maxLast = 72
