package listen

import (
	"cmp"
	"context"
	"path"
	"strings"
	"time"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/remote/credential"
	"github.com/edl-go/edl/remote/jobspec"
	"github.com/edl-go/edl/remote/wire"
)

// methodAccess is what each method of the Listener service asks of a user. A method that is missing here answers no user. The methods of a submitter act on jobs and
// states of its own only; an admin acts on all.
var methodAccess = map[string]credential.Access{
	"Describe": credential.Viewer, "List": credential.Viewer, "Status": credential.Viewer, "Watch": credential.Viewer, "Logs": credential.Viewer,
	"Why": credential.Viewer, "Show": credential.Viewer, "Nodes": credential.Viewer, "CordonNode": credential.Admin,
	"Submit": credential.Submitter, "ResumeJob": credential.Submitter, "Stop": credential.Submitter, "Finish": credential.Submitter, "Scale": credential.Submitter,
	"Checkpoint": credential.Submitter, "SuspendJob": credential.Submitter, "Acknowledge": credential.Submitter, "RunStep": credential.Submitter,
	"ReadState": credential.Submitter, "WriteState": credential.Submitter, "ReleaseState": credential.Submitter,
}

// ofAll are methods about the listener as a whole: what a user may do in single namespaces does not count.
var ofAll = map[string]bool{"Nodes": true, "CordonNode": true}

// A caller is who calls the listener. A listener, and whoever calls a listener without credentials, is an admin.
type caller struct {
	user   string            // its name; empty: none has one
	access credential.Access // in all namespaces; empty: none
	name   credential.Name
}

// in is what a caller may do in a namespace; empty: nothing.
func (c caller) in(namespace string) credential.Access {
	if c.access.Covers(credential.Admin) {
		return c.access
	}
	return c.name.In(namespace)
}

// sees reports whether a caller may know of the jobs of a namespace.
func (c caller) sees(namespace string) bool { return c.in(namespace).Covers(credential.Viewer) }

// home is the namespace of what a caller submits: the one that is named, or else default, or else the only one in which the caller may submit.
func (c caller) home(named string) (string, error) {
	namespace := cmp.Or(named, credential.DefaultNamespace)
	if !credential.IsNamespace(namespace) {
		return "", fault.E(fault.InvalidArgument, fault.Got("the namespace "+fault.Quote(namespace)), fault.Want(credential.NamespaceForm))
	}
	if c.in(namespace).Covers(credential.Submitter) {
		return namespace, nil
	}
	may := c.name.Where(credential.Submitter)
	if named == "" && len(may) == 1 {
		return may[0], nil
	}
	return "", fault.E(fault.Denied, fault.Gotf("a submission of %s to the namespace %s", fault.Quote(c.user), namespace), fault.Want("a namespace in which the user is a submitter"),
		fault.Hint("with --namespace NAME, one of "+cmp.Or(strings.Join(may, ", "), "none")))
}

// means is the id of the job or state that a caller names: a name without a namespace is one in default, or where that is not for the caller, in the only namespace that is. So
// what home has given a place is found by the name that it was submitted with.
func (c caller) means(id string) string {
	if strings.Contains(id, jobspec.Separator) || c.sees(credential.DefaultNamespace) {
		return id
	}
	if may := c.name.Where(credential.Viewer); len(may) == 1 {
		return jobspec.ID(may[0], id)
	}
	return id
}

func callerOf(ctx context.Context) caller {
	name, asked := wire.Caller(ctx)
	if !asked || name.Kind == credential.Listener {
		return caller{access: credential.Admin}
	}
	return caller{name.User, name.Access, name}
}

// mayCall refuses a call whose caller lacks what the method asks for, or has a certificate for a token that is none of those.
func mayCall(ctx context.Context, method string, tokens *credential.Tokens) error {
	name, asked := wire.Caller(ctx)
	if !asked || name.Kind == credential.Listener {
		return nil
	}
	needs, known := methodAccess[path.Base(method)]
	switch end := wire.CallerUntil(ctx); {
	case name.Kind == credential.User && !end.IsZero() && time.Now().After(end): // the connection is older
		return fault.E(fault.Denied, fault.Gotf("a call of %s, whose certificate was valid until %s", name, end.UTC().Format(time.RFC3339)), fault.Want("one with a valid one"),
			fault.Hint("the user of the listener writes others with \"edl credentials NAME -o FILE\""))
	case !known:
		return fault.E(fault.Denied, fault.Got(path.Base(method)+" from "+name.String()), fault.Want("a call from another listener"))
	case name.Kind != credential.User || !name.Most().Covers(needs) || ofAll[path.Base(method)] && !name.Access.Covers(needs):
		want := article(needs) + string(needs)
		if ofAll[path.Base(method)] {
			want += " of all namespaces"
		}
		return fault.E(fault.Denied, fault.Got(path.Base(method)+" from "+name.String()), fault.Want(want),
			fault.Hint("the user of the listener writes such credentials with \"edl credentials NAME --role "+string(needs)+" -o FILE\""))
	}
	return tokens.Counts(name)
}

// Bearer returns a function for wire.Bearers: it names the user of a call that shows a token in place of a certificate. Tokens of the manager's issuer count, and the manager's own. The function notes
// in the audit log what it refuses.
func Bearer(m *Manager) func(ctx context.Context, method, authorization string) (credential.Name, error) {
	tokens := credential.Bearers{Tokens: m.cfg.Tokens, Issuer: m.cfg.Issuer}
	return func(ctx context.Context, method, authorization string) (credential.Name, error) {
		name, err := tokens.Of(ctx, authorization)
		if wrong := credential.CheckUser(name.User); err == nil && wrong != nil { // as those have whom certificates are issued to
			err = fault.E(fault.Denied, fault.Got("a token of a user who can have no job"), fault.Want("one of another name"), fault.Cause(wrong))
		}
		if err != nil {
			noteStranger(m, path.Base(method), err)
			return credential.Name{}, err
		}
		return name, nil
	}
}

// article stands before the name of an access in a sentence.
func article(a credential.Access) string {
	if a == credential.Admin {
		return "an "
	}
	return "a "
}

// mayAct refuses an action on what belongs to another user. The caller sees the namespace that it is in.
func (c caller) mayAct(namespace, owner, what string) error {
	access := c.in(namespace)
	if access.Covers(credential.Admin) || access == credential.Submitter && c.user == owner {
		return nil
	}
	return fault.E(fault.Denied, fault.At(what), fault.Got("an action of the "+string(access)+" "+fault.Quote(c.user)), fault.Want("one of its owner "+fault.Quote(owner)+", or of an admin"))
}

// acted returns the job that the caller of a context acts on.
func acted(ctx context.Context, s *Server, id string) (*Job, error) {
	j, err := seen(ctx, s.Manager, id)
	if err == nil {
		concerns(ctx, j.ID, j.plan.hash.String())
		err = callerOf(ctx).mayAct(jobspec.NamespaceOf(j.ID), j.owner, "job "+j.ID)
	}
	if err != nil {
		return nil, err
	}
	return j, nil
}

// seen returns a job that the caller of a context may know of. Of one in another namespace it says what it says where there is none.
func seen(ctx context.Context, m *Manager, id string) (*Job, error) {
	by := callerOf(ctx)
	return find(m, by.means(id), by.sees)
}
