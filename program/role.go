package program

// A Role says what part of training an op belongs to. It is Fluid's op_role, a set of bits.
type Role int32

// Roles and their bits.
const (
	RoleForward  Role = 0
	RoleBackward Role = 1
	RoleOptimize Role = 2
	RoleRPC      Role = 4
	RoleDist     Role = 8
	RoleLRSched  Role = 16
	RoleLoss     Role = 256
)

// Attributes that every op may carry.
const (
	AttrRole      = "op_role"      // INT, a Role
	AttrRoleVar   = "op_role_var"  // STRINGS, pairs of parameter and gradient
	AttrCallstack = "op_callstack" // STRINGS, where user code built the op
	AttrNamescope = "op_namescope" // STRING
	AttrDevice    = "op_device"    // STRING
)

// Has reports whether all bits of r are set; Has(RoleForward) reports that none of the others but RoleLoss is.
func (role Role) Has(r Role) bool {
	if r == RoleForward {
		return role&^RoleLoss == 0
	}
	return role&r == r
}

// Role returns the op's role, RoleForward when the attribute is absent.
func (op *Op) Role() Role {
	v, _ := op.Int(AttrRole)
	return Role(v)
}

// SetRole sets the op's role.
func (op *Op) SetRole(r Role) { op.SetAttr(AttrRole, int32(r)) }

// RoleVars returns the pairs of parameter and gradient that the op is responsible for.
func (op *Op) RoleVars() [][2]string {
	flat, _ := op.Strs(AttrRoleVar)
	var pairs [][2]string
	for i := 0; i+1 < len(flat); i += 2 {
		pairs = append(pairs, [2]string{flat[i], flat[i+1]})
	}
	return pairs
}

// SetRoleVar names the parameter and the gradient that the op is responsible for.
func (op *Op) SetRoleVar(param, grad string) { op.SetAttr(AttrRoleVar, []string{param, grad}) }
