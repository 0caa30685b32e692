# SPDX-License-Identifier: BSD-2-Clause
# JESPAN_ENABLE_SANITIZER
# --enable-sanitizer=LIST: sets SANITIZER_CFLAGS. Only the tests' own copy of the core is built with it: in that one the
# malloc family has other names, so that the sanitizer keeps the process's malloc.
AC_DEFUN([JESPAN_ENABLE_SANITIZER], [
    AC_ARG_ENABLE([sanitizer],
        [AS_HELP_STRING([--enable-sanitizer=LIST],
            [unit and stress tests under sanitizers: address,undefined or thread])],
        [], [enable_sanitizer=no])
    AS_CASE([$enable_sanitizer],
        [no], [],
        [yes], [AC_MSG_ERROR([--enable-sanitizer needs a list: address,undefined or thread])],
        [SANITIZER_CFLAGS="-fsanitize=$enable_sanitizer -fno-sanitize-recover=all -fno-omit-frame-pointer -g"
         AC_MSG_CHECKING([whether $CC takes -fsanitize=$enable_sanitizer])
         jespan_saved_CFLAGS=$CFLAGS
         CFLAGS="$CFLAGS $SANITIZER_CFLAGS"
         AC_LINK_IFELSE([AC_LANG_PROGRAM()], [AC_MSG_RESULT([yes])],
             [AC_MSG_RESULT([no])
              AC_MSG_ERROR([$CC cannot link a program with -fsanitize=$enable_sanitizer])])
         # GCC's word on fences, which ThreadSanitizer does not follow; what they order is atomic anyway.
         CFLAGS="$CFLAGS -Werror -Wno-tsan"
         AC_COMPILE_IFELSE([AC_LANG_PROGRAM()], [SANITIZER_CFLAGS="$SANITIZER_CFLAGS -Wno-tsan"])
         CFLAGS=$jespan_saved_CFLAGS])
    AC_SUBST([SANITIZER_CFLAGS])
])
