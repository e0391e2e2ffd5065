"""Result files become one report in three forms; nothing here measures."""
