# SPDX-License-Identifier: GPL-2.0
#
# The implementations of `Zeroable` for generic types of bindgen's bindings, which bindgen does not
# derive itself. Bindings have these types only if a struct needs them.

/^pub struct __BindgenBitfieldUnit</ { bits = 1 }
/^pub struct __BindgenUnionField</ { unions = 1 }

END {
	if (bits) {
		print "// SAFETY: A newtype around `Storage`."
		print "unsafe impl<Storage: Zeroable> Zeroable for __BindgenBitfieldUnit<Storage> {}"
	}
	if (unions) {
		print "// SAFETY: It has no bytes of its own: the union's are in another field."
		print "unsafe impl<T> Zeroable for __BindgenUnionField<T> {}"
	}
}
