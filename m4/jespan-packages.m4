# SPDX-License-Identifier: BSD-2-Clause
# Looking for packages, with messages that name the Debian package to install.

# JESPAN_MISSING(WHAT, WHY, DEBIAN-PACKAGE)
# Notes that WHAT cannot be used. configure goes on, so that one run names everything that is missing.
AC_DEFUN([JESPAN_MISSING], [
    AS_VAR_APPEND([jespan_missing], ["
  $1: $2 (on Debian: apt-get install $3)"])
    AS_VAR_APPEND([jespan_missing_packages], [" $3"])
])

# JESPAN_FAIL_IF_MISSING
AC_DEFUN([JESPAN_FAIL_IF_MISSING], [
    AS_IF([test -n "$jespan_missing"], [AC_MSG_ERROR([jespan cannot be built without:$jespan_missing
On Debian, all of it:
  apt-get install$jespan_missing_packages])])
])

# JESPAN_NEED(VARIABLE, PKG-CONFIG-MODULE >= VERSION, DEBIAN-PACKAGE)
# Sets VARIABLE_CFLAGS and VARIABLE_LIBS.
AC_DEFUN([JESPAN_NEED], [
    PKG_CHECK_MODULES([$1], [$2], [], [JESPAN_MISSING([$2], [missing or too old for pkg-config], [$3])])
])

# JESPAN_WANT(VARIABLE, PKG-CONFIG-MODULES, DEBIAN-PACKAGES)
# The same, but only sets the conditional HAVE_VARIABLE, and have_variable to a line for the summary.
AC_DEFUN([JESPAN_WANT], [
    m4_pushdef([have], [have_[]m4_tolower([$1])])
    PKG_CHECK_MODULES([$1], [$2], [have=yes], [have="no (on Debian: apt-get install $3)"])
    AM_CONDITIONAL([HAVE_$1], [test "x$have" = xyes])
    m4_popdef([have])
])
