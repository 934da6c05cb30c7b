package edlcmd

import (
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/edl-go/edl/proto/rpc"
)

// writeTables says how much the pservers of a job have of each table that is on pservers alone: a line for each pserver, below the sum where there are several.
func writeTables(w io.Writer, d *rpc.JobDetails) error {
	if len(d.Tables) == 0 {
		return nil
	}
	fmt.Fprintln(w)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "TABLE\tPSERVER\tROWS\tROOM\tCOUNTED\tVALUES\tSLOTS\tSTRUCTURE\tSHARE")
	seen := map[string]bool{}
	for _, first := range d.Tables {
		if seen[first.Name] {
			continue
		}
		seen[first.Name] = true
		sum, parts := &rpc.TableUse{Name: first.Name}, []*rpc.TableUse{}
		for _, u := range d.Tables {
			if u.Name == first.Name {
				parts = append(parts, u)
				sum.Rows, sum.Room, sum.Candidates = sum.Rows+u.Rows, sum.Room+u.Room, sum.Candidates+u.Candidates
				sum.Values, sum.Slots, sum.Structure = sum.Values+u.Values, sum.Slots+u.Slots, sum.Structure+u.Structure
			}
		}
		if len(parts) > 1 {
			writeTable(t, "all", sum, sum)
		}
		for _, u := range parts {
			writeTable(t, fmt.Sprint(u.Server), u, sum)
		}
	}
	return t.Flush()
}

// writeTable writes a line. The share is that of the bytes.
func writeTable(w io.Writer, server string, u, of *rpc.TableUse) {
	bytes := func(u *rpc.TableUse) int64 { return u.Values + u.Slots + u.Structure }
	share := 100.0
	if all := bytes(of); all > 0 {
		share = 100 * float64(bytes(u)) / float64(all)
	}
	fmt.Fprintf(w, "%s\t%s\t%d\t%d\t%d\t%s\t%s\t%s\t%.1f %%\n", u.Name, server, u.Rows, u.Room, u.Candidates, humanBytes(u.Values), humanBytes(u.Slots),
		humanBytes(u.Structure), share)
}
