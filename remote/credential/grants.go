package credential

import (
	"cmp"
	"regexp"
	"slices"
	"strings"

	"github.com/edl-go/edl/fault"
)

// Grants are what a user may do in single namespaces of a listener, as text: "submitter@ads,viewer@rank". They are in the order of the namespaces, each once.
type Grants string

// DefaultNamespace is that of jobs which name none.
const DefaultNamespace = "default"

// Bounds of grants, so that a certificate stays small.
const (
	maxNamespace = 32 // bytes
	maxGrants    = 32
)

// NamespaceForm is how names of namespaces look, for messages.
const NamespaceForm = "up to 32 lower-case letters, digits and '-', but not the word nodes"

var namespaceName = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]*[a-z0-9])?$`)

// IsNamespace reports whether a text is the name of a namespace.
func IsNamespace(name string) bool {
	return len(name) <= maxNamespace && name != "nodes" && namespaceName.MatchString(name) // etcd has nodes beside the keys of jobs
}

// ParseGrants reads roles as users write them: ROLE for all namespaces, and ROLE@NAMESPACE for one. Of several for the same, the greatest counts.
func ParseGrants(roles ...string) (all Access, within Grants, err error) {
	var ofAll Access
	single := map[string]Access{}
	for _, role := range roles {
		text, namespace, one := strings.Cut(role, "@")
		access := Access(text)
		switch {
		case !slices.Contains(Accesses(), access) || one && !IsNamespace(namespace):
			return "", "", fault.E(fault.InvalidArgument, fault.At("role"), fault.Got(fault.Quote(role)), fault.Want("viewer, submitter or admin, or one of them in a namespace, such as submitter@ads"),
				fault.Hint("a namespace has "+NamespaceForm))
		case one:
			single[namespace] = greater(single[namespace], access)
		default:
			ofAll = greater(ofAll, access)
		}
	}
	var list []string
	for namespace, access := range single {
		if !ofAll.Covers(access) {
			list = append(list, string(access)+"@"+namespace)
		}
	}
	if len(list) > maxGrants {
		return "", "", fault.E(fault.TooLarge, fault.At("role"), fault.Gotf("roles in %d namespaces", len(list)), fault.Wantf("at most %d, or a role in all", maxGrants))
	}
	slices.SortFunc(list, func(a, b string) int { return cmp.Compare(namespaceOf(a), namespaceOf(b)) })
	return ofAll, Grants(strings.Join(list, ",")), nil
}

func namespaceOf(grant string) string { return grant[strings.IndexByte(grant, '@')+1:] }

// greater is the one of two accesses that covers the other.
func greater(a, b Access) Access {
	if a.Covers(b) {
		return a
	}
	return b
}

// each calls do with what g grants.
func (g Grants) each(do func(Access, string)) {
	for grant := range strings.SplitSeq(string(g), ",") {
		if access, namespace, ok := strings.Cut(grant, "@"); ok {
			do(Access(access), namespace)
		}
	}
}

// In is what a user may do in a namespace; empty: nothing.
func (n Name) In(namespace string) Access {
	have := n.Access
	n.Within.each(func(access Access, of string) {
		if of == namespace {
			have = greater(have, access)
		}
	})
	return have
}

// Most is the greatest of what a user may do somewhere.
func (n Name) Most() Access {
	have := n.Access
	n.Within.each(func(access Access, _ string) { have = greater(have, access) })
	return have
}

// Where lists the single namespaces in which a user has at least an access beside what it has in all.
func (n Name) Where(least Access) (namespaces []string) {
	n.Within.each(func(access Access, of string) {
		if access.Covers(least) {
			namespaces = append(namespaces, of)
		}
	})
	return namespaces
}

// Roles are what a user may do, as ParseGrants reads them with commas between them.
func (n Name) Roles() string {
	switch {
	case n.Within == "":
		return string(n.Access)
	case n.Access == "":
		return string(n.Within)
	}
	return string(n.Access) + "," + string(n.Within)
}
